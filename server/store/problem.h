/*
 * problem.h - one sentence for the operator that says what went wrong and names the thing.
 *
 * A plain value: filling one in cannot fail and nothing has to be freed. Never holds a secret.
 */
#ifndef HOLDFAST_STORE_PROBLEM_H
#define HOLDFAST_STORE_PROBLEM_H

struct st_problem {
    char text[1024];
    char sqlstate[6]; /* PostgreSQL's, if it was PostgreSQL that refused a statement; else "" */
};

/* The problem says this; what is too long is cut, and line breaks and trailing blanks are folded into single blanks.
 * `sqlstate` is "". */
void st_problem_set(struct st_problem *problem, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
