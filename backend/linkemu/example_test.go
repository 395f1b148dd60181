// SPDX-License-Identifier: Apache-2.0

package linkemu_test

import (
	"fmt"
	"log"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// One end of a link of 1 Gbit/s and 25 ms: queue pairs on it must be able to have in flight what it holds, and are paced to what it leaves
// for user data. The other end does the same, with another seed.
func ExampleWrap() {
	device, err := userroce.Open(userroce.Config{Port: userroce.AnyPort})
	if err != nil {
		log.Fatal(err)
	}
	link := linkemu.Config{RTT: 25 * units.Millisecond, Rate: units.Gbit, Drop: 1e-3, Seed: 1}
	emulated, err := linkemu.Wrap(device, link)
	if err != nil {
		log.Fatal(err)
	}
	defer emulated.Close() // and the device with it
	endpoint, err := sdr.NewEndpoint(emulated, sdr.EndpointConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer endpoint.Close()
	const mtu, channels = 4096, 4
	qp, err := endpoint.NewQP(sdr.QPConfig{MTU: mtu, Channels: channels, SendDepth: max(64, link.PacketsInFlight(mtu)/channels)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(qp.Config().SendDepth, link.UserRate(mtu, endpoint.Caps().HeaderBytes))
	// Output: 97 984.6 Mbit/s
}
