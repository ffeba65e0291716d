// Package suggest suggests the intended name for a mistyped one.
package suggest
