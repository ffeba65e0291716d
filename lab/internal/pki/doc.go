// Package pki makes the certificates and keys that programs of the lab hand out.
package pki
