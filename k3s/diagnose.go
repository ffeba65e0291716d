package k3s

import (
	"fmt"
	"slices"
	"strings"
)

// Diagnosis is the reason in K3s' journal why it does not run.
type Diagnosis struct {
	Cause string // in words
	Cure  string // what to do; empty if one can only wait
	Line  string // the line of the journal
	Fatal bool   // it will not recover by itself
}

// String returns the cause and the cure.
func (d Diagnosis) String() string {
	if d.Cure == "" {
		return d.Cause
	}
	return d.Cause + ": " + d.Cure
}

// NodePassword reports whether the cluster knows another machine of this name.
func (d Diagnosis) NodePassword() bool { return strings.Contains(d.Line, "Node password rejected") }

// symptom is a piece of a journal line and what it means.
type symptom struct {
	text  string
	cause string
	cure  string
	fatal bool
}

// symptoms are ordered with the most specific first: a refused agent logs the refusal and "not
// ready" at the same time. The texts are K3s' own.
var symptoms = []symptom{
	{"Node password rejected, duplicate hostname",
		"the cluster knows another machine of this name", "delete its Node (kubectl delete node NAME frees the password too), or give this machine a name of its own", true},
	{"etcd cluster join failed: duplicate node name found",
		"etcd still has a member of this name", "delete the Node of the old server, which removes its member, then start this one again", true},
	{"bootstrap data already found and encrypted with different token",
		"this machine holds the data of a cluster with another token", "join with the token that is in " + serverTokenFile + " of a running server", true},
	{"the member has been permanently removed from the cluster",
		"this server was removed from etcd", "recreate the machine; or stop k3s, delete /var/lib/rancher/k3s/server/db, and let it join again, with server: in its config.yaml; without it, K3s starts a cluster of its own", true},
	{"This node has been removed from the cluster",
		"this server was removed from etcd", "restart k3s to let it join again", true},
	{"token CA hash does not match the Cluster CA certificate hash",
		"the token is of another cluster", "read the token again from a server of this one", true},
	{"failed to bootstrap cluster data: not authorized",
		"the token is wrong, or is one for agents", "join servers with " + serverTokenFile + " of a running server", true},
	{"failed to bootstrap cluster data: forbidden",
		"a bootstrap token cannot make a server", "join servers with " + serverTokenFile + " of a running server", true},
	{"critical configuration value mismatch between servers",
		"a setting differs from that of the other servers", "give all servers the same addresses, domain, disabled components and encryption", true},
	{"--token is required",
		"there is no token to join with", "write one to " + tokenFile, true},
	{"flag provided but not defined",
		"config.yaml has a key that agents do not have", "remove it from " + configFile, true},
	{"default runtime nvidia was not found",
		"default-runtime is nvidia, and the container toolkit is not installed", "install nvidia-container-toolkit first, or drop default-runtime", true},
	{"unknown 'kubernetes.io' or 'k8s.io' labels specified",
		"a node-label is one that a kubelet may not give itself", "set it through the API instead", true},
	{"bind: address already in use",
		"another process has one of K3s' ports", "stop it: ss -ltnp shows which one has the port", true},
	{".service/start failed with result 'dependency'",
		"a unit that it needs failed, such as the mount of a data disk",
		"journalctl -b -g 'Dependency failed' shows which; attach the disk again, then repeat the command", true},
	{"no space left on device",
		"the disk is full", "make room or grow the disk", true},
	{"not authorized",
		"the server refuses the token: it is wrong, or was deleted", "read the token again from " + serverTokenFile + " of a running server", true},
	{"eaderelection lost", // of K3s itself, the scheduler or the controller manager, each of which ends K3s
		"K3s exited because it could not renew its leases in time",
		"most servers of the cluster are down, or this machine or its disk is too slow; systemd restarts K3s", false},
	{"context deadline exceeded (Client.Timeout",
		"the server does not answer", "", false},
	{"failed to get CA certs",
		"the server cannot be reached", "", false},
	{"connection refused",
		"the server does not accept connections yet", "", false},
	{"no route to host",
		"there is no route to the server", "", false},
	{"server is not ready",
		"the server is not ready yet", "", false},
	{"Waiting for etcd",
		"etcd is starting", "", false},
	{"Waiting for API server",
		"the API server is starting", "", false},
}

// ofOthers are pieces of lines about other machines or pods: a server logs each request that
// it refuses, with the reason (pkg/util/apierrors.go and pkg/server/auth/auth.go), and the
// kubelet logs problems of its pods.
var ofOthers = []string{"msg=\"Sending HTTP/", "msg=\"Failed to authenticate request from ", "\" pod=\""}

func aboutOthers(line string) bool {
	return slices.ContainsFunc(ofOthers, func(piece string) bool { return strings.Contains(line, piece) })
}

// Diagnose reads the end of K3s' journal. Permanent problems come before passing ones; of two
// equal ones the later line counts. Lines about other machines and pods are ignored.
func Diagnose(journal []string) (Diagnosis, bool) {
	journal = slices.DeleteFunc(slices.Clone(journal), aboutOthers)
	for _, fatal := range []bool{true, false} {
		for _, s := range symptoms {
			if s.fatal != fatal {
				continue
			}
			for i := len(journal) - 1; i >= 0; i-- {
				if strings.Contains(journal[i], s.text) {
					return Diagnosis{Cause: s.cause, Cure: s.cure, Line: journal[i], Fatal: s.fatal}, true
				}
			}
		}
	}
	return Diagnosis{}, false
}

// StartError says that K3s will not start by itself.
type StartError struct {
	Role      Role
	Diagnosis Diagnosis
}

// Error says what is wrong and what to do.
func (e *StartError) Error() string {
	return fmt.Sprintf("k3s %s does not start: %s (journal: %s)", e.Role, e.Diagnosis, e.Diagnosis.Line)
}
