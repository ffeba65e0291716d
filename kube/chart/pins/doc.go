// Package pins is the one table of the charts that this project installs: which version, from
// where, and which versions work together.
//
// A version that is not pinned changes without notice. So this table has every chart once,
// with its exact version, and all other code asks [Of] for it. An upgrade is a change of one
// line, reviewed by a person.
//
// Charts also depend on each other's versions: Rancher refuses a Kubernetes that is newer than
// itself, and brings the one Fleet that it was tested with. [Check] knows these pairs, and
// reports conflicts before anything is installed, without the charts. It knows what charts do
// not say, and does not replace a chart's own kubeVersion, which is checked when the chart is
// rendered.
//
// The versions are the newest public ones when the table was written; [Pin.Source] says which
// sources were read, which may be of an older version. If nothing is known about a version,
// Check gives a warning and accepts it.
package pins
