// Package charttest tests kube/chart with a real kube-apiserver and its controllers: it
// installs, upgrades, breaks, interrupts and removes the charts of kube/helm/testdata. It has
// only tests.
package charttest
