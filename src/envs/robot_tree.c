// Reads YAML into a tree of texts, lists and mappings. libyaml divides the text into events. Every scalar is a
// text: "on", "1e3" and "0x10" mean what they say. Anchors, tags and repeated keys are refused.

#include "envs/robot_tree.h"

#include <ctype.h>
#include <string.h>

#include <yaml.h>

#include "envs/reward.h"

const char *robot_node_kind(NodeKind kind) {
  return kind == TEXT ? "a text" : kind == LIST ? "a list" : "a mapping";
}

typedef struct {
  Robot *robot;
  yaml_parser_t parser;
} Reader;

static RobotText place_of(yaml_mark_t mark) {
  return (RobotText){NULL, (int)mark.line + 1, (int)mark.column + 1};
}

static int next_event(Reader *r, yaml_event_t *event) {
  if (yaml_parser_parse(&r->parser, event)) return BFM_OK;
  const yaml_parser_t *p = &r->parser;
  if (p->error == YAML_MEMORY_ERROR) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", r->robot->file);
  }
  const char *context = p->context ? p->context : "", *problem = p->problem ? p->problem : "";
  if (p->error == YAML_READER_ERROR) {
    return bfm_fail(BFM_BAD_FILE, "%s: this is not YAML: %s at byte %zu", r->robot->file, problem,
                    p->problem_offset);
  }
  return robot_fail(r->robot, place_of(p->problem_mark), "this is not YAML: %s%s%s", problem,
                    *context ? " " : "", context);
}

static int refuse_anchor(const Reader *r, RobotText place, const yaml_char_t *anchor,
                         const yaml_char_t *tag) {
  if (anchor) {
    return robot_fail(r->robot, place, "anchors such as &%s are not allowed: repeat the value",
                      (const char *)anchor);
  }
  if (tag) {
    return robot_fail(r->robot, place, "tags such as %s are not allowed: every value is a text",
                      (const char *)tag);
  }
  return BFM_OK;
}

static int read_scalar(Reader *r, const yaml_event_t *event, Node *node) {
  const char *value = (const char *)event->data.scalar.value;
  size_t length = event->data.scalar.length;
  TRY(refuse_anchor(r, node->text, event->data.scalar.anchor, event->data.scalar.tag));
  if (length > REWARD_MAX_LENGTH) {
    return robot_fail(r->robot, node->text, "a text has %zu characters, but at most %d are allowed",
                      length, REWARD_MAX_LENGTH);
  }
  for (size_t i = 0; i < length; i++) {
    if (!iscntrl((unsigned char)value[i]) || value[i] == '\n' || value[i] == '\t') continue;
    return robot_fail(r->robot, node->text, "a text has the control character 0x%02x",
                      (unsigned char)value[i]);
  }
  // a quotation mark comes before the text
  int style = event->data.scalar.style;
  if (style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE) {
    node->text.column++;
  }
  node->kind = TEXT;
  node->text.text = robot_text(r->robot, value, length);
  return node->text.text ? BFM_OK : BFM_NO_MEMORY;
}

static int read_node(Reader *r, const yaml_event_t *event, int depth, Node *node);

// NULL for a key that is there already, where reading goes on
static int read_key(Reader *r, const yaml_event_t *event, const Node *mapping, RobotText *key) {
  Node node = {.text = place_of(event->start_mark)};
  if (event->type != YAML_SCALAR_EVENT) {
    return robot_fail(r->robot, node.text, "a key must be a text");
  }
  TRY(read_scalar(r, event, &node));
  for (const Node *child = mapping->children; child; child = child->next) {
    if (strcmp(child->key.text, node.text.text)) continue;
    TRY(robot_goes_on(r->robot, robot_fail(r->robot, node.text,
                                           "the key '%s' is here twice, first in line %d",
                                           node.text.text, child->key.line)));
    return BFM_OK;
  }
  *key = node.text;
  return BFM_OK;
}

// reads what follows the event, of which it takes the ownership
static int read_child(Reader *r, yaml_event_t *event, int depth, Node *node, Node ***last) {
  Node *child = robot_take(r->robot, sizeof *child);
  int status = child ? BFM_OK : BFM_NO_MEMORY;
  if (!status && node->kind == MAPPING) {
    status = read_key(r, event, node, &child->key);
    yaml_event_delete(event);
    if (!status) status = next_event(r, event);
    if (status) return status;
  }
  if (!status) status = read_node(r, event, depth, child);
  yaml_event_delete(event);
  if (status || (node->kind == MAPPING && !child->key.text)) return status;
  **last = child;
  *last = &child->next;
  if (++node->count <= ROBOT_ITEMS) return BFM_OK;
  return robot_fail(r->robot, child->text, "%s has more than %d entries",
                    robot_node_kind(node->kind), ROBOT_ITEMS);
}

static int read_children(Reader *r, int depth, Node *node) {
  yaml_event_type_t end = node->kind == LIST ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT;
  Node **last = &node->children;
  if (depth == ROBOT_DEPTH) return robot_fail(r->robot, node->text, "this is nested too deeply");
  for (;;) {
    yaml_event_t event;
    TRY(next_event(r, &event));
    if (event.type == end) {
      yaml_event_delete(&event);
      return BFM_OK;
    }
    TRY(read_child(r, &event, depth + 1, node, &last));
  }
}

static int read_node(Reader *r, const yaml_event_t *event, int depth, Node *node) {
  node->text = place_of(event->start_mark);
  switch (event->type) {
    case YAML_SCALAR_EVENT: return read_scalar(r, event, node);
    case YAML_SEQUENCE_START_EVENT:
      node->kind = LIST;
      TRY(refuse_anchor(r, node->text, event->data.sequence_start.anchor,
                        event->data.sequence_start.tag));
      return read_children(r, depth, node);
    case YAML_MAPPING_START_EVENT:
      node->kind = MAPPING;
      TRY(refuse_anchor(r, node->text, event->data.mapping_start.anchor,
                        event->data.mapping_start.tag));
      return read_children(r, depth, node);
    case YAML_ALIAS_EVENT:
      return robot_fail(r->robot, node->text, "references such as *%s are not allowed",
                        (const char *)event->data.alias.anchor);
    default: return robot_fail(r->robot, node->text, "a value is missing");
  }
}

// the events of a whole file: a stream with one document with one node
static int read_file(Reader *r, Node *root) {
  static const yaml_event_type_t before[] = {YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT};
  for (int i = 0; i < 2; i++) {
    yaml_event_t event;
    TRY(next_event(r, &event));
    yaml_event_type_t type = event.type;
    yaml_event_delete(&event);
    if (type != before[i]) return bfm_fail(BFM_BAD_FILE, "%s is empty", r->robot->file);
  }
  yaml_event_t event;
  TRY(next_event(r, &event));
  int status = read_node(r, &event, 0, root);
  yaml_event_delete(&event);
  for (int i = 0; i < 2 && !status; i++) {
    TRY(next_event(r, &event));
    if (i && event.type != YAML_STREAM_END_EVENT) {
      status = robot_fail(r->robot, place_of(event.start_mark), "a second document begins here");
    }
    yaml_event_delete(&event);
  }
  return status;
}

int robot_tree(Robot *robot, const char *yaml, size_t size, Node *root) {
  Reader reader = {.robot = robot};
  if (!yaml_parser_initialize(&reader.parser)) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", robot->file);
  }
  yaml_parser_set_input_string(&reader.parser, (const unsigned char *)yaml, size);
  int status = read_file(&reader, root);
  yaml_parser_delete(&reader.parser);
  return status;
}
