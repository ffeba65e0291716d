// Package charttest holds kube/chart to a real kube-apiserver with its controllers:
// the charts of kube/chart/testdata are installed, upgraded, broken, cut off and
// removed. All is in the tests.
package charttest
