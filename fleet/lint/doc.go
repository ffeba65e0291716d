// Package lint finds mistakes in any Fleet repository, without a cluster.
//
// [Run] reads it as Fleet does ([ReadBundles]), and reports what Fleet refuses, and what it
// silently accepts and does not do. docs/fleet-lint.md has every rule with an example.
package lint
