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

// staleCertificate is how K3s says it: … with Body length 0, at the request for its certificates.
const staleCertificate = ": http: ContentLength="

// StaleCertificate reports whether an agent has the certificate of a Node that there is not: [Rejoin]
// helps. The Node was deleted, or K3s ended between the two: it asks for the certificate some
// seconds before its kubelet registers the Node (testdata/real/07-agent-ends-early.txt).
func (d Diagnosis) StaleCertificate() bool { return strings.Contains(d.Line, staleCertificate) }

// foreignLines are pieces of lines about other machines or pods: a server logs each request that
// it refuses, with the reason (pkg/util/apierrors.go and pkg/server/auth/auth.go), and the
// kubelet logs problems of its pods.
var foreignLines = []string{"msg=\"Sending HTTP/", "msg=\"Failed to authenticate request from ", "\" pod=\""}

func isForeign(line string) bool {
	return slices.ContainsFunc(foreignLines, func(piece string) bool { return strings.Contains(line, piece) })
}

// Diagnose reads the end of K3s' journal. Permanent problems come before transient ones; of two
// equal ones the later line counts. Lines about other machines and pods are ignored.
func Diagnose(journal []string) (Diagnosis, bool) {
	journal = slices.DeleteFunc(slices.Clone(journal), isForeign)
	if d, found := firstDiagnosis(permanentSymptoms, journal); found {
		d.Fatal = true
		return d, true
	}
	return firstDiagnosis(transientSymptoms, journal)
}

// firstDiagnosis returns the diagnosis by the first of the symptoms that the journal has.
func firstDiagnosis(symptoms []symptom, journal []string) (Diagnosis, bool) {
	for _, s := range symptoms {
		for _, line := range slices.Backward(journal) {
			if strings.Contains(line, s.text) {
				return Diagnosis{Cause: s.cause + s.detail(journal), Cure: s.cure, Line: line}, true
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
