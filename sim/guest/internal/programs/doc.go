// Package programs is what a base system has in /usr/bin: programs for files and texts,
// accounts, downloads and the like. Each is a Go function that refuses what it does not know.
package programs
