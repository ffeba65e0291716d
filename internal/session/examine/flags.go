package examine

// SupportFlags are those of cluster:support.
type SupportFlags struct {
	Out string `help:"FILE: the archive; default: CLUSTER-support-DATE.tar.gz"`
}

// ConformanceFlags are those of cluster:conformance.
type ConformanceFlags struct {
	Run bool `help:"also start three pods on each node with GPUs, one of them with a GPU, which count the GPUs that they see; in the namespace homelab-conformance, which is removed"`
}

// PlatformVerifyFlags are those of platform:verify.
type PlatformVerifyFlags struct {
	Part  string `help:"A,B: only these parts, e.g. logs"`
	JUnit string `help:"FILE: write every check here, for a CI system"`
}
