"""Who a party is, how others know it, and how two of them talk so that nobody else can read or change it."""
