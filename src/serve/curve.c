// Curves of bounded size.

#include "serve/curve.h"

// the mean of two points that stand for so many values each
static CurvePoint mix(CurvePoint a, int of_a, CurvePoint b, int of_b) {
  double share = (double)of_b / (of_a + of_b);
  return (CurvePoint){a.step + share * (b.step - a.step), a.mean + share * (b.mean - a.mean),
                      a.std + share * (b.std - a.std)};
}

static void merge_neighbours(Curve *c) {
  for (int i = 0; i < CURVE_POINTS / 2; i++) {
    c->points[i] = mix(c->points[2 * i], 1, c->points[2 * i + 1], 1);
  }
  c->count = CURVE_POINTS / 2;
  c->stride *= 2;
  c->last = c->stride;
}

void curve_add(Curve *c, CurvePoint value) {
  if (!c->stride) c->stride = c->last = 1;
  if (c->last < c->stride) {
    CurvePoint *open = &c->points[c->count - 1];
    *open = mix(*open, c->last++, value, 1);
    return;
  }
  if (c->count == CURVE_POINTS) merge_neighbours(c);
  c->points[c->count++] = value;
  c->last = 1;
}

static void print_point(const CurvePoint *p, int with_std, const char *before, FILE *out) {
  fprintf(out, "%s[%.10g,%.5g", before, p->step, p->mean);
  if (with_std) fprintf(out, ",%.4g", p->std);
  fputc(']', out);
}

void curve_print(const Curve *c, const CurvePoint *last, int with_std, FILE *out) {
  const char *before = "";
  // a further point takes the place of the last one of a full curve
  int count = last && c->count == CURVE_POINTS ? c->count - 1 : c->count;
  fputc('[', out);
  for (int i = 0; i < count; i++, before = ",") print_point(&c->points[i], with_std, before, out);
  if (last) print_point(last, with_std, before, out);
  fputc(']', out);
}
