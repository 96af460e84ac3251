-- Who may call what: nobody but the owner, except what is for users' own transactions, which holdfast_user may. Last, after all functions exist.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'holdfast_user') THEN
        GRANT USAGE ON SCHEMA holdfast TO holdfast_user;
        GRANT EXECUTE ON FUNCTION holdfast.guard(text, text, bigint) TO holdfast_user;
        GRANT EXECUTE ON FUNCTION holdfast.begin_operation(text, text, text, bytea, text, bigint) TO holdfast_user;
        GRANT EXECUTE ON FUNCTION holdfast.complete_operation(text, text, bigint, bytea) TO holdfast_user;
        GRANT EXECUTE ON FUNCTION holdfast.emit(text, text, text, text, bytea, text) TO holdfast_user;
    END IF;
    PERFORM holdfast.make_partitions(1);
END
$$;
