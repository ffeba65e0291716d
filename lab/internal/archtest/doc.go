// Package archtest holds what the lab may import as a test: it plays the world that
// this project is judged by, and a world that reads Fleet, Helm or K3s with our own
// code would repeat our errors and call them right.
package archtest
