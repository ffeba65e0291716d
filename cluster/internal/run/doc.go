// Package run is what the steps of one Plan or Run share: what they remember until it
// ends, and how patiently they wait, by the file's patience.
package run
