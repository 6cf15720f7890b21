// A curve of bounded size over steps, however long the run. When it is full, neighbours are merged
// into their mean, and each further point is the mean of twice as many values.

#ifndef BFM_SERVE_CURVE_H
#define BFM_SERVE_CURVE_H

#include <stdio.h>

enum { CURVE_POINTS = 400 };  // even

typedef struct {
  double step, mean, std;
} CurvePoint;

typedef struct {
  CurvePoint points[CURVE_POINTS];
  int count;
  int stride;  // values of a point; 0: the curve is new
  int last;    // values of the last point so far
} Curve;

void curve_add(Curve *curve, CurvePoint value);

// "[[step,mean,std],…]", without std if it is not wanted; `last`, unless NULL, is a further point
void curve_print(const Curve *curve, const CurvePoint *last, int with_std, FILE *out);

#endif
