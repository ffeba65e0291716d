// Package bench measures GPUs with programs that run in pods, and judges what they measured.
//
// A [Kind] is one such measurement: loading every GPU for a while, computing with PyTorch or
// TensorFlow, copying between GPUs, and summing over them with NCCL. [Job] returns the Job that
// does it on one node. Its container needs an image with PyTorch or TensorFlow and nothing of
// ours: the programs come in a ConfigMap. [Parse] reads what they say, and [Judge] makes checks of
// it, with what is known of the node.
//
// A wrong result fails a check. A slow one is a warning: what a link may not fall below is in
// [peerFloor], [allReduceFloor] and [networkFloor], which are lenient, since machines differ.
//
// Package check is for what needs no such image.
package bench
