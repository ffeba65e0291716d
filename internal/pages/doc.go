// Package pages is for tests: it compares the outputs that README and docs/ show with what commands print.
//
// An output is a block of code behind a comment, which a reader does not see:
//
//	<!-- output: kubectl get nodes -->
//
//	```
//	NAME  STATUS  …
//	```
//
// The comment names where the output comes from: a command that sim/lab/e2e.TestPages types, a recorded file of the
// repository, a _test.go in whose strings the words are, or a word by which a test calls [Compare]. A block shows lines that
// follow each other in the output; "…" stands for anything, on a line of its own for any number of lines.
package pages
