// Package kube sees Kubernetes narrowly: it applies objects, tells when they are
// ready, and looks after nodes.
package kube
