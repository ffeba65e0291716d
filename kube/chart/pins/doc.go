// Package pins is the one table of the charts that this project installs: which
// version, where from, and what it works together with.
//
// A version that nobody pinned is a version that changes on a Tuesday night. Every
// chart therefore stands here once, exact, and everything else asks [Of] for it. An
// upgrade is one line in this table, read by a person.
//
// Charts also fit each other, or not: Rancher refuses a Kubernetes that is newer
// than itself, and brings the one Fleet it was tested with. [Check] knows these
// pairs, and tells them before anything is installed. It does not replace what a
// chart says itself (its kubeVersion is checked again when it is rendered); it
// knows what charts do not say, and it knows it without having the chart.
//
// The versions are the newest that were seen in public when the table was written;
// what was read of them, which may be an older version, is in [Pin.Source]. Where
// nothing is known of a version, Check says so with a warning and lets it pass.
package pins
