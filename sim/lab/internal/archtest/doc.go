// Package archtest tests what the lab may import. The lab simulates the world in which this
// project is tested; if it used our own code for Fleet, Helm or K3s, it would repeat our
// mistakes.
package archtest
