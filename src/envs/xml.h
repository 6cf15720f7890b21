// Reads an XML text tag by tag, without building a tree. It accepts only what every parser divides
// into the same tags, MuJoCo's among them: what was checked here is what MuJoCo reads.

#ifndef BFM_ENVS_XML_H
#define BFM_ENVS_XML_H

#include <stddef.h>

#include "core/status.h"

enum { XML_ATTRIBUTES = 64, XML_DEPTH = 480 };  // limits: of a tag, nested elements

typedef enum {
  XML_END,    // of the text
  XML_OPEN,   // <name …>, or <name …/> if `empty`
  XML_CLOSE,  // </name>
  XML_TEXT,   // between tags, or a comment
  XML_EXTRA,  // a declaration, a document type or CDATA: nothing that MuJoCo uses
} XmlKind;

// slices of the text, without a zero at their end
typedef struct {
  const char *at;
  int length;
} XmlSlice;

typedef struct {
  XmlSlice name, value;  // the value as it is written, without its quotes
} XmlAttribute;

typedef struct {
  const char *file;  // for messages
  const char *at, *end;
  int at_line;

  XmlKind kind;
  const char *start;  // of the token, which ends at `at`
  int line;           // in which it starts
  XmlSlice name;
  int empty;
  XmlAttribute attributes[XML_ATTRIBUTES];
  int count;
  XmlSlice open[XML_DEPTH];  // the elements around the next token
  int depth, has_root;
} XmlReader;

void xml_begin(XmlReader *reader, const char *file, const char *text, size_t size);
int xml_next(XmlReader *reader);

int xml_is(XmlSlice slice, const char *word);                             // as MuJoCo: in any case
const XmlAttribute *xml_attribute(const XmlReader *r, const char *name);  // or NULL

#endif
