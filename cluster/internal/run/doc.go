// Package run is how patiently steps wait, by the file's patience.
package run
