"""Put price ticks to a topic: each line of the standard input is one, such as `wheat 210`."""

import sys

from telesto import TelestoClient


def main() -> None:
    """Put what the standard input says, and print the number of each tick."""
    with TelestoClient(name="exchange") as client:
        prices = client.topic("prices")
        for line in sys.stdin:
            product, price = line.split()
            number = prices.put({"product": product, "price": int(price)})
            print(f"{number}: {product} {price}", flush=True)


if __name__ == "__main__":
    main()
