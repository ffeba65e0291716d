// Package name holds what those who start a component need to know of it, apart
// from package component, which brings all of Kubernetes along.
package name

// The names under which components are called.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	KWOK              = "kwok"
	Kubectl           = "kubectl"
)

// ParentEnv is the environment variable with the process id of the lab, without
// which a component does not want to live. Linux kills the children of a lab that
// crashed; other systems do not.
const ParentEnv = "HOMELAB_LAB_PID"
