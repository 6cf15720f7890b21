// An XML text, tag by tag. Tags must be nested properly and attributes quoted; a document type may
// not define anything.

#define _GNU_SOURCE  // memmem

#include "envs/xml.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

void xml_begin(XmlReader *r, const char *file, const char *text, size_t size) {
  memset(r, 0, offsetof(XmlReader, attributes));
  r->count = r->depth = r->has_root = 0;
  r->file = file;
  r->at = text;
  r->end = text + size;
  r->at_line = 1;
  if (size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) r->at += 3;  // byte order mark
}

int xml_is(XmlSlice slice, const char *word) {
  return (size_t)slice.length == strlen(word) && !strncasecmp(slice.at, word, slice.length);
}

const XmlAttribute *xml_attribute(const XmlReader *r, const char *name) {
  for (int i = 0; i < r->count; i++) {
    if (xml_is(r->attributes[i].name, name)) return &r->attributes[i];
  }
  return NULL;
}

#define FAIL(r, ...)                    \
  (bfm_fail(BFM_BAD_FILE, __VA_ARGS__), \
   bfm_fail_prefix(BFM_BAD_FILE, "%s:%d: ", r->file, r->at_line))

static int starts(const XmlReader *r, const char *word) {
  size_t n = strlen(word);
  return (size_t)(r->end - r->at) >= n && !memcmp(r->at, word, n);
}

static void advance(XmlReader *r, const char *to) {
  for (; r->at < to; r->at++) r->at_line += *r->at == '\n';
}

// goes behind the first `word` after the next `skip` characters
static int pass(XmlReader *r, size_t skip, const char *word, const char *what) {
  size_t n = strlen(word);
  if ((size_t)(r->end - r->at) >= skip + n) {
    const char *found = memmem(r->at + skip, (size_t)(r->end - r->at) - skip, word, n);
    if (found) {
      advance(r, found + n);
      return BFM_OK;
    }
  }
  return FAIL(r, "%s is not closed by '%s'", what, word);
}

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void skip_space(XmlReader *r) {
  while (r->at < r->end && is_space(*r->at)) r->at_line += *r->at++ == '\n';
}

static int is_name_start(char c) {
  return isalpha((unsigned char)c) || c == '_' || c == ':' || (unsigned char)c >= 128;
}

static int is_name_part(char c) {
  return is_name_start(c) || isdigit((unsigned char)c) || c == '-' || c == '.';
}

static int read_name(XmlReader *r, XmlSlice *name, const char *where) {
  name->at = r->at;
  if (r->at == r->end || !is_name_start(*r->at)) return FAIL(r, "a name is missing %s", where);
  while (r->at < r->end && is_name_part(*r->at)) r->at++;
  if (r->at - name->at > 255) return FAIL(r, "a name has more than 255 characters");
  name->length = (int)(r->at - name->at);
  return BFM_OK;
}

static int read_attribute(XmlReader *r) {
  if (r->count == XML_ATTRIBUTES) {
    return FAIL(r, "'%.*s' has more than %d attributes", r->name.length, r->name.at,
                XML_ATTRIBUTES);
  }
  XmlAttribute *a = &r->attributes[r->count++];
  TRY(read_name(r, &a->name, "in a tag"));
  for (const XmlAttribute *b = r->attributes; b < a; b++) {
    if (b->name.length != a->name.length || memcmp(b->name.at, a->name.at, a->name.length))
      continue;
    return FAIL(r, "'%.*s' has the attribute '%.*s' twice", r->name.length, r->name.at,
                a->name.length, a->name.at);
  }
  skip_space(r);
  if (r->at == r->end || *r->at != '=') {
    return FAIL(r, "'=' is missing after '%.*s'", a->name.length, a->name.at);
  }
  r->at++;
  skip_space(r);
  char quote[2] = {r->at < r->end ? *r->at : 0};
  if (*quote != '"' && *quote != '\'') {
    return FAIL(r, "quotes are missing after '%.*s='", a->name.length, a->name.at);
  }
  a->value.at = r->at + 1;
  TRY(pass(r, 1, quote, "the quoted text"));
  if (r->at - a->value.at > 1 << 30) return FAIL(r, "an attribute is too long");
  a->value.length = (int)(r->at - 1 - a->value.at);
  return BFM_OK;
}

static int read_open(XmlReader *r) {
  r->kind = XML_OPEN;
  r->at++;
  TRY(read_name(r, &r->name, "after '<'"));
  if (!r->depth && r->has_root) return FAIL(r, "there is a second root element");
  r->has_root = 1;
  for (;;) {
    skip_space(r);
    if (starts(r, "/>")) {
      r->at += 2;
      r->empty = 1;
      return BFM_OK;
    }
    if (starts(r, ">")) {
      r->at++;
      if (r->depth == XML_DEPTH) return FAIL(r, "elements are nested deeper than %d", XML_DEPTH);
      r->open[r->depth++] = r->name;
      return BFM_OK;
    }
    if (r->at == r->end) {
      return FAIL(r, "the tag of '%.*s' is not closed", r->name.length, r->name.at);
    }
    TRY(read_attribute(r));
  }
}

static int read_close(XmlReader *r) {
  r->kind = XML_CLOSE;
  r->at += 2;
  TRY(read_name(r, &r->name, "after '</'"));
  skip_space(r);
  if (!starts(r, ">")) return FAIL(r, "'>' is missing after '</%.*s'", r->name.length, r->name.at);
  r->at++;
  XmlSlice open = r->depth ? r->open[--r->depth] : (XmlSlice){"", 0};
  if (open.length == r->name.length && !memcmp(open.at, r->name.at, open.length)) return BFM_OK;
  return open.length ? FAIL(r, "'</%.*s>' closes '<%.*s>'", r->name.length, r->name.at, open.length,
                            open.at)
                     : FAIL(r, "'</%.*s>' closes nothing", r->name.length, r->name.at);
}

// a document type may name itself, but define no entities
static int read_doctype(XmlReader *r) {
  TRY(pass(r, 2, ">", "'<!'"));
  if (!memchr(r->start, '[', (size_t)(r->at - r->start))) return BFM_OK;
  return FAIL(r, "a document type with definitions is not supported: remove '<!DOCTYPE …>'");
}

static int read_text(XmlReader *r) {
  const char *end = memchr(r->at, '<', (size_t)(r->end - r->at));
  r->kind = XML_TEXT;
  advance(r, end ? end : r->end);
  if (r->depth) return BFM_OK;
  for (const char *c = r->start; c < r->at; c++) {
    if (!is_space(*c)) return FAIL(r, "there is text outside of the root element");
  }
  return BFM_OK;
}

int xml_next(XmlReader *r) {
  r->start = r->at;
  r->line = r->at_line;
  r->count = r->empty = 0;
  r->kind = XML_EXTRA;
  if (r->at == r->end) {
    r->kind = XML_END;
    if (r->depth) {
      XmlSlice open = r->open[r->depth - 1];
      return FAIL(r, "the file ends before '</%.*s>'", open.length, open.at);
    }
    return r->has_root ? BFM_OK : FAIL(r, "the file has no XML element");
  }
  if (*r->at != '<') return read_text(r);
  if (starts(r, "</")) return read_close(r);
  if (starts(r, "<?")) return pass(r, 2, "?>", "'<?'");
  if (starts(r, "<![CDATA[")) return pass(r, 9, "]]>", "'<![CDATA['");
  if (starts(r, "<!--")) {
    r->kind = XML_TEXT;
    return pass(r, 4, "-->", "a comment");
  }
  return starts(r, "<!") ? read_doctype(r) : read_open(r);
}
