-- Scenarios that somebody shared: written once, never changed.
create table scenario (
    -- The first characters of the digest in base32; more of them when two digests begin alike.
    id text not null primary key,
    -- SHA-256, in hex, of the canonical JSON of document and view.
    digest text not null unique,
    -- The scenario document as canonical JSON.
    document text not null,
    -- What the page showed of it, as JSON; the server does not look inside.
    view text,
    -- Which program stored it, so that an old link can say that a prediction has changed since.
    engine_version text not null,
    engine_predictions bigint not null,
    created_at_ms bigint not null
);
