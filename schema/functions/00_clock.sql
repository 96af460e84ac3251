-- The clock: all of Holdfast's SQL takes the time from here, so that tests can replace it.

CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
AS $$ SELECT pg_catalog.clock_timestamp() $$;
