/*
 * certs.h - certificates made in a moment for tests of TLS: authorities, servers, clients, expired ones. Each is two files,
 * DIR/NAME.pem and DIR/NAME.key (mode 0600, P-256). Fails the running test if it can't.
 */
#ifndef HOLDFAST_TESTS_HARNESS_CERTS_H
#define HOLDFAST_TESTS_HARNESS_CERTS_H

/* Zero means the default. */
struct t_cert {
    const char *cn;   /* of the subject; NULL = its name; "" = an empty subject */
    const char *san;  /* as x509v3_config(5) has it: "DNS:localhost,IP:127.0.0.1"; NULL = none */
    const char *use;  /* the extended key usage: "serverAuth", "clientAuth"; NULL = both */
    int from_s, to_s; /* when it is valid, from now; 0 = an hour ago, and in a day */
};

/* An authority that signs for itself. */
void t_cert_ca(const char *dir, const char *name);
/* Signed by the authority `ca` of the same folder. An existing one is replaced, with a new key. `opts` may be NULL. */
void t_cert(const char *dir, const char *ca, const char *name, const struct t_cert *opts);

#endif
