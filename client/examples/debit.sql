-- A debit that happens once, however often it is asked for: in SQL alone, in one transaction with the tables it writes.
--
-- The record of the operation, the debit, its row in the ledger and the event are one transaction: all of them, or none. Whoever comes with the
-- same key while it is under way waits in begin_operation, and is told the stored result after the commit; after a rollback he is the one
-- who does it. With other parameters under the same key he is told that, and nothing else.
--
-- An operator lets a role use a namespace once: SELECT holdfast.allow_role('billing', 'default');

CREATE TABLE account (
    id text PRIMARY KEY,
    balance bigint NOT NULL CHECK (balance >= 0)
);
-- Records of operations are kept for a while (30 days, unless a policy says otherwise). What must never happen twice, even years later, has a key
-- of its own as well.
CREATE TABLE ledger (
    operation text PRIMARY KEY,
    account text NOT NULL REFERENCES account,
    amount bigint NOT NULL
);

-- 'APPLIED 900': it was debited now, and that is what is left. 'REPLAY 900': it had been before; that was left then. 'CONFLICT': the key belongs to
-- another debit. 'IN_PROGRESS', 'UNKNOWN', 'REVIEW': somebody began it in a transaction of its own and has not ended it. Raises P0001 if there
-- is not enough: nothing is kept then, and the same key may be tried again.
CREATE FUNCTION debit(p_key text, p_account text, p_amount bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    -- The parameters, all of them and nothing else: what tells this debit from another one. jsonb has one form for the same content.
    parameters CONSTANT jsonb := jsonb_build_object('account', p_account, 'amount', p_amount);
    op record;
    rest bigint;
BEGIN
    SELECT * INTO op FROM holdfast.begin_operation('default', p_key, 'debit', sha256(convert_to(parameters::text, 'UTF8')));
    IF op.outcome = 'replayed' THEN
        RETURN 'REPLAY ' || convert_from(op.result, 'UTF8');
    ELSIF op.outcome <> 'started' THEN
        RETURN upper(op.outcome);
    END IF;

    UPDATE account SET balance = balance - p_amount WHERE id = p_account AND balance >= p_amount RETURNING balance INTO rest;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'account % has less than %', p_account, p_amount; -- the record goes with the rest of the transaction
    END IF;
    INSERT INTO ledger (operation, account, amount) VALUES (p_key, p_account, -p_amount);

    PERFORM holdfast.emit('default', 'account', p_account, 'debited', convert_to(parameters::text, 'UTF8'), p_key);
    PERFORM holdfast.complete_operation('default', p_key, op.token, convert_to(rest::text, 'UTF8'));
    RETURN 'APPLIED ' || rest;
END
$$;

INSERT INTO account VALUES ('alice', 1000);
