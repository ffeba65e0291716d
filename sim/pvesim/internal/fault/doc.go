// Package fault says what goes wrong with which requests: rules, and their form as one
// line of text.
package fault
