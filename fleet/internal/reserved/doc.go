// Package reserved has the names of Helm releases that no Fleet bundle may use.
package reserved
