// Buffered writing of text and JSON to a file descriptor. After a failed write the rest is dropped, and told.
#ifndef OUTPUT_H
#define OUTPUT_H

#include "reader.h"

struct output {
    int fd;
    int error;  // errno of the first write that failed
    bool comma;  // a JSON value was just written, the next one needs a comma
    size_t used;
    char buffer[1 << 16];
};

void output_init(struct output *output, int fd);
void output_flush(struct output *output);
void output_bytes(struct output *output, const void *bytes, size_t size);
void output_text(struct output *output, const char *text);
void output_slice(struct output *output, struct slice text);
void output_number(struct output *output, uint64_t number);

// "0x" and at least `digits` hex digits.
void output_hex(struct output *output, uint64_t number, unsigned digits);

// JSON. A key is followed by exactly one value; commas come by themselves.
void json_open(struct output *output, char bracket);
void json_close(struct output *output, char bracket);
void json_key(struct output *output, const char *key);
void json_null(struct output *output);
void json_bool(struct output *output, bool value);
void json_number(struct output *output, uint64_t number);
void json_hex(struct output *output, uint64_t number, unsigned digits);  // a string

// A string; null when its data is NULL. Bytes that are no UTF-8 become U+FFFD.
void json_slice(struct output *output, struct slice text);
void json_text(struct output *output, const char *text);

#endif
