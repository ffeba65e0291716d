// Package pins is the one table of the charts that this project installs: which
// version, where from, and what it works together with.
package pins
