// The peers' libraries stay out of the product's go.mod.
module github.com/sdr-rdma/go-sdr/test/peers

go 1.26.0

require (
	github.com/quic-go/quic-go v0.65.0
	github.com/sdr-rdma/go-sdr v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sys v0.49.0
)

require (
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/klauspost/reedsolomon v1.14.2 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
)

replace github.com/sdr-rdma/go-sdr => ../..
