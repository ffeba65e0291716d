// Package charts has the lab's stand-in Helm charts.
//
// The lab has no internet, and the real charts belong to other projects. So for each pinned
// chart there is one of ours with the same name and version: it accepts the values that our
// parts render, and creates the main objects under the real chart's names. Package operators
// simulates the programs in their pods. It recognizes programs by their images, so it works
// with the real charts too.
//
// They are not copies, and do not replace a test of values with the real chart: keys that our
// parts do not set have no effect here.
package charts
