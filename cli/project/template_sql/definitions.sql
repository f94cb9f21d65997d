-- The sources and views of this project: every number is defined here, once.

CREATE SOURCE orders (
    order_id TEXT NOT NULL,
    at TIMESTAMP NOT NULL,
    customer TEXT NOT NULL,
    city TEXT NOT NULL,
    channel ENUM('shop', 'web') NOT NULL,
    items BIGINT NOT NULL,
    amount DECIMAL(38, 2) NOT NULL,
    PRIMARY KEY (order_id),
    WATERMARK FOR at
);

CREATE VIEW sales AS
SELECT
    upper(city) AS city,
    count(*) AS orders,
    sum(items) AS items,
    sum(amount) AS revenue,
    approx_count_distinct(customer) AS customers
FROM orders
GROUP BY city, TUMBLE(at, INTERVAL '1 hour');

CREATE VIEW channels AS
SELECT channel, count(*) AS orders, max(amount) AS largest
FROM orders
WHERE amount > 0
GROUP BY channel;
