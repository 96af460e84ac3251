/*
 * main.c - the program `holdfast`. Everything else is a library, so that tests can link to it.
 */
#include "client/cli/commands.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
