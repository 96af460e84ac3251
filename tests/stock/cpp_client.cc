// Holdfast by libgrpc++, as a C++ program has it. One translation unit with what protoc generated (cpp_all.cc includes both), for
// most of the time goes into gRPC's headers.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

namespace v1 = holdfast::v1;
using std::string;

namespace
{
constexpr auto patience = std::chrono::seconds(20);

#define CHECK(condition) check(condition, #condition, __LINE__)
void check(bool is_so, const char *what, int line)
{
    if (!is_so)
        throw std::runtime_error("line " + std::to_string(line) + ": not so: " + what);
}

struct Client {
    std::shared_ptr<grpc::Channel> channel =
        grpc::CreateChannel(std::getenv("HOLDFAST_HTTP"), grpc::InsecureChannelCredentials());
    std::unique_ptr<v1::LeaseService::Stub> leases = v1::LeaseService::NewStub(channel);
    std::unique_ptr<v1::ResourceService::Stub> resources = v1::ResourceService::NewStub(channel);
    std::unique_ptr<v1::OperationService::Stub> operations = v1::OperationService::NewStub(channel);
};

void until(const std::function<bool()> &is_so, const char *what)
{
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!is_so()) {
        if (std::chrono::steady_clock::now() > end)
            throw std::runtime_error(string("not in time: ") + what);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

void set_deadline(grpc::ClientContext *context, std::chrono::milliseconds in = patience)
{
    context->set_deadline(std::chrono::system_clock::now() + in);
}

v1::AcquireRequest acquire(const string &resource, int64_t wait_ms = 0)
{
    v1::AcquireRequest request;
    request.set_namespace_("default");
    request.add_resources(resource);
    request.set_holder("c++");
    request.set_ttl_ms(60000);
    request.set_wait_ms(wait_ms);
    return request;
}

v1::AcquireResponse try_once(Client &client, const string &resource)
{
    grpc::ClientContext context;
    v1::AcquireResponse answer;
    set_deadline(&context);
    CHECK(client.leases->Acquire(&context, acquire(resource), &answer).ok());
    return answer;
}

int64_t grant(Client &client, const string &resource)
{
    const v1::AcquireResponse answer = try_once(client, resource);
    CHECK(answer.has_granted());
    return answer.granted().grants(0).token();
}

bool release(Client &client, const string &resource, int64_t token)
{
    grpc::ClientContext context;
    v1::ReleaseRequest request;
    v1::ReleaseResponse answer;
    set_deadline(&context);
    request.set_namespace_("default");
    v1::LeaseItem *item = request.add_items();
    item->set_resource(resource);
    item->set_token(token);
    CHECK(client.leases->Release(&context, request, &answer).ok());
    return answer.items(0).was_held();
}

grpc::Status write(Client &client, const string &resource, int64_t token, int64_t seq, const string &value, v1::WriteResponse *answer)
{
    grpc::ClientContext context;
    v1::WriteRequest request;
    set_deadline(&context);
    request.set_namespace_("default");
    request.set_resource(resource);
    request.set_token(token);
    request.set_write_seq(seq);
    request.set_value(value);
    return client.resources->Write(&context, request, answer);
}

// The ErrorInfo in the details, which must agree with the status.
google::rpc::ErrorInfo info_of(const grpc::Status &status)
{
    google::rpc::Status details;
    google::rpc::ErrorInfo info;
    CHECK(details.ParseFromString(status.error_details()));
    CHECK(details.code() == status.error_code() && details.message() == status.error_message());
    for (const auto &any : details.details())
        if (any.UnpackTo(&info))
            return info;
    throw std::runtime_error("no ErrorInfo");
}

void guarded_write(Client &client)
{
    v1::WriteResponse answer;
    const int64_t token = grant(client, "c/write");
    CHECK(write(client, "c/write", token, 1, "one", &answer).ok() && answer.version() == 1);
    CHECK(write(client, "c/write", token, 1, "one", &answer).ok() && answer.replayed());
    CHECK(release(client, "c/write", token));
    const int64_t next = grant(client, "c/write");
    CHECK(next > token);
    const grpc::Status stale = write(client, "c/write", token, 2, "late", &answer);
    CHECK(stale.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
    const auto info = info_of(stale);
    CHECK(info.reason() == "STALE_TOKEN" && info.domain() == "holdfast");
    CHECK(info.metadata().at("fence") == std::to_string(next));
}

void a_cancelled_waiter(Client &client)
{
    const int64_t token = grant(client, "c/wait");
    grpc::ClientContext context;
    grpc::Status status;
    std::thread waiter([&] {
        v1::AcquireResponse answer;
        status = client.leases->Acquire(&context, acquire("c/wait", 60000), &answer);
    });
    until([&] { return try_once(client, "c/wait").held().waiters() == 1; }, "it waits");
    context.TryCancel();
    waiter.join();
    CHECK(status.error_code() == grpc::StatusCode::CANCELLED);
    until([&] { return try_once(client, "c/wait").held().waiters() == 0; }, "it left");
    CHECK(release(client, "c/wait", token));
    CHECK(grant(client, "c/wait") == token + 1);
}

void a_deadline(Client &client)
{
    grant(client, "c/late");
    for (int seconds = 1; seconds <= 8; seconds *= 2) {
        grpc::ClientContext context;
        v1::AcquireResponse answer;
        set_deadline(&context, std::chrono::seconds(seconds));
        const grpc::Status status = client.leases->Acquire(&context, acquire("c/late", 60000), &answer);
        if (status.ok()) {
            CHECK(answer.has_held());
            return;
        }
        CHECK(status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED); // a busy machine
    }
    throw std::runtime_error("never told in time");
}

grpc::Status begin(Client &client, const string &parameters, v1::BeginResponse *answer)
{
    grpc::ClientContext context;
    v1::BeginRequest request;
    set_deadline(&context);
    request.set_namespace_("default");
    request.set_key("c/operation");
    request.set_type("t");
    request.set_canonical_json(parameters);
    request.set_holder("c++");
    request.set_ttl_ms(60000);
    return client.operations->Begin(&context, request, answer);
}

void an_operation(Client &client)
{
    v1::BeginResponse began;
    CHECK(begin(client, R"({"amount": 100})", &began).ok() && began.has_started());
    grpc::ClientContext context;
    v1::CompleteRequest complete;
    v1::FinishResponse done;
    complete.set_namespace_("default");
    complete.set_key("c/operation");
    complete.set_token(began.started().token());
    complete.set_result("receipt");
    CHECK(client.operations->Complete(&context, complete, &done).ok());
    CHECK(begin(client, R"({"amount": 100})", &began).ok() && began.replayed().result() == "receipt");
    const grpc::Status conflict = begin(client, R"({"amount": 101})", &began);
    CHECK(conflict.error_code() == grpc::StatusCode::ALREADY_EXISTS);
    CHECK(info_of(conflict).reason() == "PARAMETER_CONFLICT");
}

void a_stream(Client &client)
{
    grpc::ClientContext context;
    v1::WatchLeasesRequest request;
    v1::WatchLeasesResponse event;
    request.set_namespace_("default");
    request.set_prefix("c/watch");
    set_deadline(&context);
    auto stream = client.leases->Watch(&context, request);
    std::atomic<bool> told{false};
    std::thread reader([&] { told = stream->Read(&event) && event.kind() == v1::WatchLeasesResponse::WATCHING && stream->Read(&event); });
    std::thread actor([&] {
        for (int i = 0; i < 100 && !told; i++) // until the watch has begun
            release(client, "c/watch", grant(client, "c/watch"));
    });
    reader.join();
    actor.join();
    CHECK(told && event.lease().resource() == "c/watch");
    context.TryCancel();
    CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
}
} // namespace

int main()
{
    const struct {
        const char *name;
        void (*run)(Client &client);
    } tests[] = {{"guarded write, stale token", guarded_write},
                 {"a cancelled waiter leaves the queue", a_cancelled_waiter},
                 {"a deadline", a_deadline},
                 {"an operation takes effect once", an_operation},
                 {"a stream", a_stream}};
    Client client;
    int failed = 0;
    for (const auto &test : tests) {
        try {
            test.run(client);
            printf("ok      %s\n", test.name);
        } catch (const std::exception &error) {
            printf("FAILED  %s: %s\n", test.name, error.what());
            failed++;
        }
    }
    return failed ? 1 : 0;
}
