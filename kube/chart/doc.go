// Package chart names what is to be installed, as values: a [Release] is a chart, its exact
// version and the values that differ from the chart's defaults; a [Part] is a release with the
// objects that it needs. Package kube/helm installs them, package fleet writes them to Git.
// Neither Helm nor the cluster is needed to make them.
package chart
