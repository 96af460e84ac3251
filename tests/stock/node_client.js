// Holdfast by @grpc/grpc-js and @grpc/proto-loader, as a Node program has it: the protos are read when it starts.
'use strict';
const assert = require('node:assert');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const protobuf = require('protobufjs');

const protos = ['lease', 'resource', 'operation', 'admin'].map((name) => `holdfast/v1/${name}.proto`);
const definition = loader.loadSync(protos, {
    includeDirs: [`${process.env.HOLDFAST_SOURCE}/proto`], keepCase: true, longs: Number, enums: String, oneofs: true, defaults: true,
});
const v1 = grpc.loadPackageDefinition(definition).holdfast.v1;
const address = process.env.HOLDFAST_HTTP;
const PATIENCE = 20000;

const services = {};
for (const name of ['LeaseService', 'ResourceService', 'OperationService', 'AdminService'])
    services[name] = new v1[name](address, grpc.credentials.createInsecure());

function start(service, method, request, options = {}) {
    let call;
    const done = new Promise((resolve, reject) => {
        call = services[service][method]({ namespace: 'default', ...request }, new grpc.Metadata(),
            { deadline: Date.now() + (options.timeout ?? PATIENCE) }, (error, answer) => (error ? reject(error) : resolve(answer)));
    });
    done.catch(() => {}); // whoever awaits it is told
    return { done, cancel: () => call.cancel() };
}

const ask = (service, method, request, options) => start(service, method, request, options).done;

// grpc-js leaves the details as bytes; protobufjs, with which proto-loader reads protos, can decode them.
const root = new protobuf.Root();
root.resolvePath = (_, path) => `${process.env.HOLDFAST_SOURCE}/proto/${path.replace(/^.*\/proto\//, '')}`;
root.loadSync(['google/rpc/status.proto', 'google/rpc/error_details.proto']);
const decode = (type, bytes) => root.lookupType(`google.rpc.${type}`).decode(bytes);

async function refused(promise, code, reason) {
    const error = await promise.then(() => assert.fail(`not refused: ${reason}`), (failure) => failure);
    assert.equal(error.code, grpc.status[code], error.message);
    const status = decode('Status', error.metadata.get('grpc-status-details-bin')[0]);
    assert.equal(status.code, error.code);
    assert.equal(status.message, error.details);
    const details = {};
    for (const any of status.details) {
        const name = any.type_url.split('.').pop();
        details[name] = decode(name, any.value);
    }
    assert.equal(details.ErrorInfo.reason, reason);
    assert.equal(details.ErrorInfo.domain, 'holdfast');
    return details;
}

async function until(condition, what) {
    for (const end = Date.now() + PATIENCE; !(await condition());) {
        assert(Date.now() < end, `not within ${PATIENCE} ms: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}

const acquire = (resource, more) => ({ resources: [resource], holder: 'node', ttl_ms: 60000, ...more });

async function grant(resource) {
    const answer = await ask('LeaseService', 'Acquire', acquire(resource));
    assert.equal(answer.outcome, 'granted');
    return answer.granted.grants[0].token;
}

const release = (resource, token) => ask('LeaseService', 'Release', { items: [{ resource, token }] });

const tests = {
    async 'acquire, renew, release'() {
        const token = await grant('n/life');
        const items = [{ resource: 'n/life', token }];
        const renewed = await ask('LeaseService', 'Renew', { items, ttl_ms: 90000 });
        assert(renewed.items[0].renewed.ttl_ms > 60000);
        assert.equal((await ask('LeaseService', 'Acquire', acquire('n/life'))).held.holder, 'node');
        assert((await release('n/life', token)).items[0].was_held);
        const lost = await ask('LeaseService', 'Renew', { items, ttl_ms: 1000 });
        assert.equal(lost.items[0].lost.reason, 'RELEASED');
        assert(await grant('n/life') > token);
    },
    async 'guarded write, stale token'() {
        const token = await grant('n/write');
        const write = { resource: 'n/write', token, write_seq: 1, value: Buffer.from('one') };
        assert.equal((await ask('ResourceService', 'Write', write)).version, 1);
        assert((await ask('ResourceService', 'Write', write)).replayed);
        assert.equal((await ask('ResourceService', 'Read', { resource: 'n/write' })).value.toString(), 'one');
        await release('n/write', token);
        const next = await grant('n/write');
        const details = await refused(ask('ResourceService', 'Write', { ...write, write_seq: 2 }), 'FAILED_PRECONDITION', 'STALE_TOKEN');
        assert.equal(details.ErrorInfo.metadata.fence, String(next));
    },
    async 'the field that is wrong'() {
        const details = await refused(ask('LeaseService', 'Acquire', acquire('n/bad', { ttl_ms: 1 })), 'INVALID_ARGUMENT', 'LIMIT');
        assert.equal(details.BadRequest.fieldViolations[0].field, 'ttl_ms');
    },
    async 'a cancelled waiter leaves the queue'() {
        const token = await grant('n/wait');
        const waiters = async (n) => (await ask('LeaseService', 'Acquire', acquire('n/wait'))).held.waiters === n;
        const calls = [1, 2].map(() => start('LeaseService', 'Acquire', acquire('n/wait', { wait_ms: 60000 }), { timeout: 60000 }));
        await until(() => waiters(2), 'two wait');
        calls[0].cancel();
        await until(() => waiters(1), 'one waits');
        await assert.rejects(calls[0].done, { code: grpc.status.CANCELLED });
        await release('n/wait', token);
        assert.equal((await calls[1].done).granted.grants[0].token, token + 1);
    },
    async 'a deadline'() {
        await grant('n/late');
        for (const timeout of [1000, 2000, 4000, 8000]) {
            try {
                const answer = await ask('LeaseService', 'Acquire', acquire('n/late', { wait_ms: 60000 }), { timeout });
                return assert.equal(answer.outcome, 'held');
            } catch (error) {
                assert.equal(error.code, grpc.status.DEADLINE_EXCEEDED); // a busy machine
            }
        }
        return assert.fail('never told in time');
    },
    async 'an operation takes effect once'() {
        const begin = { key: 'n/op', type: 't', canonical_json: '{"amount": 100}', holder: 'node', ttl_ms: 60000 };
        const first = await ask('OperationService', 'Begin', begin);
        assert.equal(first.outcome, 'started');
        await refused(ask('OperationService', 'Begin', { ...begin, canonical_json: '{"amount": 101}' }), 'ALREADY_EXISTS', 'PARAMETER_CONFLICT');
        await ask('OperationService', 'Complete', { key: 'n/op', token: first.started.token, result: Buffer.from('receipt') });
        const again = await ask('OperationService', 'Begin', begin);
        assert.equal(again.outcome, 'replayed');
        assert.equal(again.replayed.result.toString(), 'receipt');
    },
    async 'a stream'() {
        const stream = services.LeaseService.Watch({ namespace: 'default', prefix: 'n/watch' });
        const seen = [];
        stream.on('data', (event) => event.kind !== 'WATCHING' && seen.push(`${event.kind} ${event.lease.resource} ${event.lease.token}`));
        let ended = null;
        stream.on('error', (error) => { ended = error; });
        await until(async () => {
            assert.equal(ended, null);
            await release('n/watch', await grant('n/watch'));
            return seen.length > 0;
        }, 'the watch has begun');
        const token = await grant('n/watch');
        await until(() => seen.includes(`GRANTED n/watch ${token}`), 'the grant is told');
        stream.cancel();
        await until(() => ended, 'the stream has ended');
        assert.equal(ended.code, grpc.status.CANCELLED);
    },
    async 'many calls at once'() {
        const tokens = await Promise.all(Array.from({ length: 500 }, (_, i) => grant(`n/many/${i}`)));
        assert.deepEqual(new Set(tokens), new Set([1]));
    },
    async 'no such method'() {
        const client = new grpc.Client(address, grpc.credentials.createInsecure());
        const nothing = (value) => value;
        const error = await new Promise((resolve) => {
            client.makeUnaryRequest('/holdfast.v1.LeaseService/Nothing', nothing, nothing, Buffer.alloc(0), resolve);
        });
        assert.equal(error.code, grpc.status.UNIMPLEMENTED);
        client.close();
    },
};

(async () => {
    let failed = 0;
    for (const [name, test] of Object.entries(tests)) {
        try {
            await test();
            console.log(`ok      ${name}`);
        } catch (error) {
            failed++;
            console.log(`FAILED  ${name}\n${error.stack}`);
        }
    }
    Object.values(services).forEach((service) => service.close());
    process.exitCode = failed ? 1 : 0;
})();
