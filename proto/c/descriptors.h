/*
 * descriptors.h - all .proto files of this folder as protoc describes them: a serialized google.protobuf.FileDescriptorSet, made at
 * build time, each file behind those that it imports. For server reflection.
 */
#ifndef HOLDFAST_PROTO_DESCRIPTORS_H
#define HOLDFAST_PROTO_DESCRIPTORS_H

#include <stddef.h>

extern const unsigned char hp_descriptors[];
extern const size_t hp_descriptors_len;

#endif
