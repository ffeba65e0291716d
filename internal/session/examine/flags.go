package examine

// SupportFlags are those of cluster:support.
type SupportFlags struct {
	Out string `help:"FILE: the archive; default: CLUSTER-support-DATE.tar.gz"`
}
