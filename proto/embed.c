/*
 * embed.c - a tool of the build: writes the C source that carries a FileDescriptorSet (proto/c/descriptors.h).
 *
 *     hf_embed_descriptors DESCRIPTORS.pb OUT.c
 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL;
    FILE *out = in ? fopen(argv[2], "w") : NULL;
    size_t n = 0;
    int c;
    if (!out) {
        fprintf(stderr, "usage: hf_embed_descriptors DESCRIPTORS.pb OUT.c\n");
        return EXIT_FAILURE;
    }
    fputs("#include \"proto/c/descriptors.h\"\n\nconst unsigned char hp_descriptors[] = {", out);
    for (; (c = getc(in)) != EOF; n++)
        fprintf(out, "%s%d,", n % 24 ? "" : "\n    ", c);
    fprintf(out, "\n};\nconst size_t hp_descriptors_len = %zu;\n", n);
    if (ferror(in) || fclose(out) != 0 || n == 0) {
        fprintf(stderr, "hf_embed_descriptors: %s: cannot be written\n", argv[2]);
        return EXIT_FAILURE;
    }
    fclose(in);
    return EXIT_SUCCESS;
}
