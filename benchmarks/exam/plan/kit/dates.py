"""Days, months and years."""

_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_in_month(year, month):
    """Return how many days a month (1 to 12) has."""
    return _DAYS[month - 1]


def days_in_year(year):
    """Return how many days a year has."""
    return sum(days_in_month(year, month) for month in range(1, 13))
