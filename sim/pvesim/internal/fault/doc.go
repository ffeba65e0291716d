// Package fault says what goes wrong with which requests.
package fault
