// Package config reads and changes the configuration of machines: options, drives, the
// cloud-init drive, what waits for the next start, and the rights that each option takes.
package config
