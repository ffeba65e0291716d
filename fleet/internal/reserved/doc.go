// Package reserved knows the Helm releases that no bundle of Fleet may be called like.
package reserved
