// Package charts holds the lab's stand-in Helm charts.
//
// The lab has no internet, and the real charts belong to others. So there is for
// each chart that this project pins one of ours, of the same name and version: it
// takes the values that our parts render, and makes the objects that one would look
// for under the names that the real chart gives them. What runs in their pods is
// simulated by package operators, which recognizes programs by their images, and so
// serves the real charts as well.
//
// They are no copies, and no substitute for trying a values file against the real
// chart: keys that our parts do not set do nothing here.
package charts
