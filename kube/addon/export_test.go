package addon

// ProbeScripts are what runs in the pods of a probe.
func ProbeScripts() (write, read string) { return writeScript, readScript }

// Probed is the annotation of a class that was proven.
const Probed = probed
