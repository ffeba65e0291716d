// Package k3s sets up K3s on machines that one can run commands on.
package k3s
